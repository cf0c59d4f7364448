"""For authors of plugins: the conformance kit (`testing`), and packages to begin with (`templates`)."""
