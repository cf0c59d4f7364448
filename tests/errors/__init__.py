"""What users see if an input, a plugin or the machine is at fault."""
