# Looking at locks and cells; faults.cmake, which is read before, has how.
zookeeper_faults(look LAYOUTS curator node
  CASES many denied denied_one cell_again cell_too_large)
zookeeper_faults(look LAYOUTS curator CASES stranger_holds long_line semaphore)
