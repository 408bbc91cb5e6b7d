# The layouts that keep no queue: their formats, and the other programs that share them.
redis_faults(plain LAYOUTS plain
  CASES written_down foreign_holder foreign_lease stolen woken not_polled wrong_type
        token_is_time reply_lost given_up listed told_if_wanted without_channels
        guarded clustered)
redis_faults(getset LAYOUTS getset
  CASES written_down seconds foreign_holder dead_lock loser stranger deleted
        old_recipe wrong_value broken clustered)
