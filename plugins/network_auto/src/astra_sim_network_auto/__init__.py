"""The network `auto`: parts of a run on another network, each kind once, and a bound of the error of the answer."""
