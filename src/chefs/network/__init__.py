"""The nonlinear Gaussian belief network (section 4.1): so far the Markov chain over it, `NetworkKernel`."""
