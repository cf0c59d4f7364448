"""Pictures of runs of astra: timelines for Perfetto, pages of HTML, plots for papers."""
