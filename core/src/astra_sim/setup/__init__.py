"""From an experiment to the components of a run."""
