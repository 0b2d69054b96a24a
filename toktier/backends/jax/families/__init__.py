"""The families of pre-tokenizers whose piece starts the device finds by run decomposition, one in a module."""
