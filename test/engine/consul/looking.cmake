# Looking at locks and breaking them, where there are other things and other clients too.
consul_faults(looking CASES other_data stranger many_holders)
