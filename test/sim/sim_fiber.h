/* SPDX-License-Identifier: MIT */
/* What sim_sys.c builds core/sys.h on; the other parts of sim_fiber.c are in sim.h. */
#ifndef DIBS_SIM_FIBER_H
#define DIBS_SIM_FIBER_H

#include <dibs/engine.h>

void sim_fiber_reset(uint64_t seed);

/* sim_preempt lets the seed decide whether somebody else runs now. */
void sim_preempt(void);
/* sim_block sleeps until sim_wake_all of the same address, or until that time. */
void sim_block(const void *on, dibs_time until);
void sim_wake_all(const void *on);
void sim_note_sleep(void); /* for sim_first_slept */

dibs_time sim_local_time(void); /* what the running process's clock shows */
dibs_time sim_true_time(dibs_time local);
void sim_advance(dibs_time by);

/* A fiber's place is what a thread's id is made of. */
size_t sim_fiber_start(int process, void *(*run)(void *), void *arg, int detached);
void sim_fiber_join(size_t place);

#endif /* DIBS_SIM_FIBER_H */
