"""The nonlinear Gaussian belief network (section 4.1): its chain, its starts, and the estimator."""
