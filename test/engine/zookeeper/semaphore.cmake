# What the layout curator writes down, and what others do to it.
zookeeper_faults(claim LAYOUTS curator
  CASES written_down strangers strange_readers deleted_while_held deleted_while_waiting
        found_by_data given_up given_up_in_outage downgrade longer lapses)
zookeeper_faults(semaphore LAYOUTS curator
  CASES written_down in_order strangers deleted_while_held deleted_while_waiting
        reply_lost given_up too_many)
