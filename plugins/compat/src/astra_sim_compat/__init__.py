"""Programs with the names, options, output and files of those of ASTRA-sim: its run scripts work with astra."""
