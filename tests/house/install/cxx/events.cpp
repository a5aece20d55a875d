// tests/house/install/cxx/events.cpp -- libtmhperf from outside: every event has a value or a
// cause. Prints 10, as counter.cpp does.
#include <cstdio>

#include <tmh/perf.hpp>

int main() {
  tmh::perf::Counters counters({"page-faults,context-switches", "no-such-event"});
  counters.start();
  counters.stop();
  int sum = 0;
  for (const tmh::perf::Reading &reading : counters.read())
    sum += reading.missing.empty() ? reading.running_ns <= reading.enabled_ns : 1;
  std::printf("%d\n", sum == 3 ? 10 : sum);
}
