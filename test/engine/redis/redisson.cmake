# The redisson layout: what it writes down, and what it makes of what Redisson wrote.
# test/interop has the real Redisson.
redis_faults(redisson LAYOUTS redisson
  CASES written_down foreign_holder published foreign_fair_head stolen reply_lost
        given_up wrong_type wrong_form listed broken lingers without_channels
        guarded)
redis_faults(redisson_forms LAYOUTS redisson
  CASES fair_enqueues fair_stays_out fair_purges fair_gives_up fenced
        fenced_reply_lost read_written_down read_leaves_others write_published
        downgraded writer_first)
foreach(topic redisson redisson_forms)
  target_sources(test_redis_${topic} PRIVATE redisson_play.c)
  target_link_libraries(test_redis_${topic} PRIVATE dibs_resp)
endforeach()
