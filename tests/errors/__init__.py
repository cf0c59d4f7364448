"""What a person sees where an input, a plugin or a machine is not as it should be."""
