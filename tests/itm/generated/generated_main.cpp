// tests/itm/generated/generated_main.cpp -- runs the programs of one file of generate.py.
// Usage:     PROGRAM THREADS ROUNDS FIRST LAST: those from the first number to the last. For each a
//            line "begin NUMBER" and then "NUMBER HASH". THREADS is 1, 2, or 1+1: the work of two,
//            by one after the other, as a plain build does in any case.
#include <pthread.h>

#include "tests/itm/generated/generated.h"

using namespace generated;

namespace {

pthread_barrier_t together;
unsigned rounds;

struct Work {
  const Program *program;
  State *state;
};

void *run(void *argument) {
  const auto &work = *static_cast<const Work *>(argument);
  pthread_barrier_wait(&together);
  for (unsigned round = 0; round < rounds; ++round) work.program->run(work.state, round);
  return nullptr;
}

void run_program(const Program &program, unsigned threads, bool is_one_by_one) {
  static_cast<void>(std::printf("begin %u\n", program.number));
  static_cast<void>(std::fflush(stdout));
  State *const states = new State[2]();
  Work work[2];
  pthread_t ids[2];
  for (unsigned k = 0; k < threads; ++k) {
    fill(&states[k], static_cast<int>(k), program.number * 2 + k);
    for (unsigned i = 0; i < 4; ++i) states[k].function[i] = program.functions[i];
    work[k] = {&program, &states[k]};
  }
  static_cast<void>(pthread_barrier_init(&together, nullptr, is_one_by_one ? 1 : threads));
  if (is_one_by_one) {
    for (unsigned k = 0; k < threads; ++k) run(&work[k]);
  } else {
    for (unsigned k = 0; k < threads; ++k)
      if (pthread_create(&ids[k], nullptr, run, &work[k]) != 0) std::abort();
    for (unsigned k = 0; k < threads; ++k) static_cast<void>(pthread_join(ids[k], nullptr));
  }
  static_cast<void>(pthread_barrier_destroy(&together));
  U hash = hash_of(*program.shared);
  for (unsigned k = 0; k < threads; ++k) mix(hash, hash_of(states[k]));
  static_cast<void>(std::printf("%u %016lx\n", program.number, hash));
  static_cast<void>(std::fflush(stdout));
}

}  // namespace

int main(int count, char **arguments) {
  if (count != 5) return 64;
#ifdef GENERATED_PLAIN
  const bool is_plain = true;
#else
  const bool is_plain = false;
#endif
  const std::string mode = arguments[1];
  if (mode != "1" && mode != "2" && mode != "1+1") return 64;
  const unsigned threads = mode == "1" ? 1 : 2;
  const bool is_one_by_one = is_plain || mode != "2";
  rounds = static_cast<unsigned>(std::atoi(arguments[2]));
  const auto first = static_cast<unsigned>(std::atoi(arguments[3])),
             last = static_cast<unsigned>(std::atoi(arguments[4]));
  for (unsigned k = 0; k < program_count; ++k)
    if (programs[k].number >= first && programs[k].number <= last)
      run_program(programs[k], threads, is_one_by_one);
}
