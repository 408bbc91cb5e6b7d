# A server without room.
etcd_faults(room LAYOUTS concurrency single CASES no_space)
