// bench/support/thesis_mechanism.h -- the page mechanism of the LIBXAC thesis, as the yardstick of
// our benches.
// Shape:     home file, mapped PROT_NONE as the view; buffer files that receive a copy of each page
//            an instance writes.
//            touch          what happens (thesis, section 3.1 and figure 3-1)
//            first read     SIGSEGV; mmap(MAP_FIXED) of the page, READ, from home or from the
//                           buffer that holds it now
//            first write    SIGSEGV as for a read; the re-executed store raises a second SIGSEGV:
//                           the page is copied into the next buffer page, which is mapped
//                           READ|WRITE in its place
//            advised        the same without the signals; READ_WRITE skips the READ mapping
//                           (section 4.2.3)
//            end            every touched page is mapped back to PROT_NONE with one mmap each ("two
//                           calls to mmap" per page read, equation 4.1); the copies become the
//                           committed versions
//            collection     when more than kLiveTransactionsMax committed instances wait, their
//                           newest versions are copied home and the buffer files are used again
//                           from their start (sections 3.2 and 3.3)
// Where the text leaves room, the cheaper way is taken: one process and no instance besides, so no
// conflict test beyond the page's entry and an uncontended spin lock; copies are made from and to
// permanent mappings (no extra fault); the PROT_NONE mapping is the home file's own offset, so that
// the kernel merges it with its neighbours again; buffer files are laid out and mapped before the
// first instance; nothing is synchronised to disk.
// Sharing:   one process, one instance of this class at a time (it owns the SIGSEGV action).
// Source:    thesis, sections 3.1 to 3.3, 4.2.3.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <signal.h>

#include <tmh/domain.hpp>  // Access

namespace tmh::bench {

class ThesisMechanism {
 public:
  // "The prototype arbitrarily sets ... the maximum number of concurrent transactions to 16"
  // (appendix A.1 item 3), and a committed transaction counts until it has been collected.
  static constexpr std::uint32_t kLiveTransactionsMax = 16;
  // "I had arbitrarily set the default size for LIBXAC's log files to 10,000 pages" (section 4.3,
  // note 8).
  static constexpr std::uint32_t kBufferFilePages = 10'000;

  struct Counters {
    std::uint64_t signals = 0, mmaps = 0, pages_copied = 0, pages_collected = 0, collections = 0;
  };

  // `home_file` exists with at least `page_count` pages. Buffer files are made in `folder`.
  // Throws std::system_error.
  ThesisMechanism(const std::string &folder, const std::string &home_file,
                  std::uint64_t page_count);
  ~ThesisMechanism();
  ThesisMechanism(const ThesisMechanism &) = delete;
  ThesisMechanism &operator=(const ThesisMechanism &) = delete;

  [[nodiscard]] std::byte *data() const noexcept { return view_; }
  [[nodiscard]] std::uint64_t page_count() const noexcept { return page_count_; }
  void begin() noexcept;
  void end();
  void advise(const void *address, Access access) noexcept;
  void collect() noexcept;  // REQUIRES: no instance is running
  [[nodiscard]] const Counters &counters() const noexcept { return counters_; }

 private:
  enum class PageState : std::uint8_t { kNone, kRead, kWritten };
  struct Version {
    std::uint32_t page;    // in the segment
    std::uint32_t number;  // 1 + position in the buffer files; 0 would be home
  };
  struct BufferFile {
    int fd = -1;
    std::byte *mapping = nullptr;
  };

  static void on_sigsegv(int signal, siginfo_t *info, void *context);
  void handle_fault(std::uint64_t page) noexcept;
  void map_read(std::uint32_t page) noexcept;
  void map_copy(std::uint32_t page) noexcept;
  void map_fixed(std::uint32_t page, int protection, int fd, std::uint64_t file_page) noexcept;
  void open_buffer(std::uint32_t index, bool lay_out);
  [[nodiscard]] std::byte *version_bytes(std::uint32_t page, std::uint32_t number) const noexcept;
  void lock() noexcept;
  void unlock() noexcept;
  [[noreturn]] static void die(const char *what) noexcept;

  // 64 buffer files hold 640,000 pages: more than any instance here can map (vm.max_map_count).
  static constexpr std::uint32_t kBufferFilesMax = 64;
  // Laid out at the start: 16 instances of 1,024 written pages, the largest that page_touch runs.
  static constexpr std::uint32_t kBufferFilesReady = 2;

  std::string folder_;
  std::uint64_t page_count_;
  int home_fd_ = -1;
  std::byte *view_ = nullptr;
  std::byte *home_ = nullptr;  // the runtime's own READ|WRITE mapping
  BufferFile buffers_[kBufferFilesMax];
  std::uint32_t next_number_ = 1;
  std::vector<PageState> states_;
  std::vector<std::uint32_t> newest_;  // version number per page, 0: home
  // Of the running instance; capacity page_count_, so never grows in the handler.
  std::vector<std::uint32_t> touched_;
  std::vector<Version> written_;  // of the running instance; the same
  std::vector<Version> committed_;
  std::uint32_t committed_count_ = 0;  // instances in committed_
  std::uint64_t next_id_ = 0;          // the global transaction counter
  std::atomic<bool> locked_{false};    // the global lock; uncontended here
  struct sigaction old_action_ {};
  Counters counters_;
};

}  // namespace tmh::bench
