"""Pages of the policy: rules, simulation and explanations."""
