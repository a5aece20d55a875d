// tests/support/watched_log.h -- the log's sink under test: log files whose durable writes the disk
// hook sees, too (platform/disk.h), and may make fail, as it does with every other file.
// Shape:     linked to every test program, and there before main(). What a hook records, the log's
//            writes among the others, a power cut may have left (tests/power/).
// Sharing:   a process of its own each; children inherit it.
#pragma once

namespace tmh::test {

// Again, after another maker of sinks was set.
void use_watched_log() noexcept;

}  // namespace tmh::test

// Nothing to call: it names what every program is linked with (cmake/tests.cmake).
extern "C" int tmh_test_watches_the_log();
