"""The roofline compute model of astra."""
