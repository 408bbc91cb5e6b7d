# Looking at locks and breaking them, where there are other things and other clients too.
etcd_faults(looking LAYOUTS concurrency
  CASES other_data data_in_the_way stranger many_locks many_sharers)
