// tests/itm/compiled/fork_at_the_first.cpp -- one thread forks while another one has the process's
// first transaction; the child has one, too, and ends.
// Methods:   lines serial
// Levels:    2
// Says:      0 hang
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace {

long total;
void *work(void *) {
  __transaction_atomic { ++total; }
  return nullptr;
}

// In a process that has had no transaction yet.
int try_once(int delay) {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, work, nullptr) != 0) return 3;
  while (delay-- > 0) std::atomic_signal_fence(std::memory_order_seq_cst);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    work(nullptr);
    _exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 3;
  pthread_join(thread, nullptr);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

}  // namespace

int main() {
  int hang = 0;
  for (int delay = 0; delay < 60; ++delay) {
    const pid_t child = fork();
    if (child == 0) _exit(try_once(delay * 2000));
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return 3;
    if (!WIFEXITED(status) || WEXITSTATUS(status) == 3) return 3;
    hang += WEXITSTATUS(status);
  }
  std::printf("%d hang\n", hang);
}
