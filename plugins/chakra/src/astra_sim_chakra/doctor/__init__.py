"""What is wrong with traces, what can be mended, what they hold, and the same for more ranks: `astra trace`."""
