/* tmh/itm.h -- what this project's libitm adds for programs of -fgnu-tm: threads that die alone.
 * Method pages: a thread that dies of SIGSEGV, SIGBUS, SIGFPE, SIGILL or abort() inside of a
 * transaction dies alone. Its stores vanish, other threads go on.
 * The functions are weak: a program that asks whether they are null runs on any libitm. */
#ifndef TMH_ITM_H
#define TMH_ITM_H

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What pthread_join() gives as the value of a thread that has died alone. */
#define TMH_ITM_THREAD_DIED ((void *)-2)

/* Runs in the dying thread, after the transaction was rolled back. It may create threads. */
typedef void (*tmh_itm_thread_death)(pthread_t thread, int signal, void *argument);
/* Null: none. Replaces the one before, for all threads. 0, or ENOSYS where threads do not die
 * alone. */
__attribute__((weak)) int tmh_itm_on_thread_death(tmh_itm_thread_death callback, void *argument);

#ifdef __cplusplus
}
#endif

#endif
