// storage/log/backup_image.h -- a backup's segments in memory as they were at a point of the log,
// without a store to any file.
// Shape:     each data file is mapped privately at the segment's address, and the log's differences
//            up to the point are stored there: the kernel copies the pages that they change, and no
//            other one. Then all is read only.
// Invariant: what is mapped is what recover() would leave in the data files, byte by byte. An error
//            leaves nothing mapped.
// Errors:    those of recovery.h, but for what concerns writing. kNotHeld: the data files may hold
//            what is later, or the log ends before. kAddressInUse. kFileShrunk.
// Sharing:   open(): one thread. REQUIRES that no participant is in the folder, then and as long as
//            the object lives.
// Source:    docs/history.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tmh/error.hpp>
#include <tmh/past.hpp>

#include "storage/checkpoint_file.h"
#include "storage/control.h"
#include "storage/data_files.h"
#include "storage/log/log_plan.h"
#include "storage/page_id.h"

namespace tmh::storage {

class BackupImage {
 public:
  // Where archived log files lie, and whether segments may lie where the kernel wants.
  struct Options {
    std::string log_folder;
    bool is_relocated = false;
  };
  struct Segment {
    SegmentRecordV1 record{};
    std::byte *base = nullptr;
    std::uint64_t bytes = 0;           // that the segment had
    std::uint64_t reserved_bytes = 0;  // of addresses
    std::vector<bool> changed;         // by page
    std::uint64_t changed_count = 0;
  };

  BackupImage() = default;
  BackupImage(const BackupImage &) = delete;
  BackupImage &operator=(const BackupImage &) = delete;
  ~BackupImage();

  // Once.
  [[nodiscard]] Errc open(const std::string &folder, const Moment &moment, const Options &options);

  [[nodiscard]] const std::vector<Segment> &segments() const noexcept { return segments_; }
  [[nodiscard]] const LogPlan &plan() const noexcept { return plan_; }
  // Of the last commit: timestamp, and time; 0: it is not in the log that was read.
  [[nodiscard]] std::uint64_t stamp() const noexcept { return stamp_; }
  [[nodiscard]] std::uint64_t time_ns() const noexcept { return time_ns_; }
  [[nodiscard]] std::uint64_t transactions() const noexcept { return transactions_; }
  [[nodiscard]] std::uint64_t log_bytes() const noexcept { return log_bytes_; }

 private:
  [[nodiscard]] Errc read_control();
  [[nodiscard]] Errc read_checkpoint();
  [[nodiscard]] Errc find_point(const Moment &moment, LogPoint *point);
  [[nodiscard]] Errc find_named(std::string_view name, LogPoint *point);
  [[nodiscard]] Errc make_plan(const Moment &moment, const LogPoint &point);
  [[nodiscard]] Errc check_reach(const Moment &moment, const LogPoint &point) const;
  [[nodiscard]] Errc map(std::uint32_t number);
  [[nodiscard]] Errc extend(Segment *segment, std::uint64_t bytes) const noexcept;
  [[nodiscard]] Errc replay();
  class Stores;
  [[nodiscard]] Errc apply(const RecordView &record);
  [[nodiscard]] Errc grow_heaps();
  [[nodiscard]] Errc protect() const noexcept;

  std::string folder_;
  Options options_;
  std::unique_ptr<ControlFile> control_;
  CheckpointV1 from_{};
  std::unique_ptr<DataFiles> noted_;
  std::unique_ptr<LogSource> source_;
  LogPlan plan_;
  // By number; base is null where there is none.
  std::vector<Segment> segments_;
  std::uint64_t stamp_ = 0, time_ns_ = 0, transactions_ = 0, log_bytes_ = 0;
};

}  // namespace tmh::storage
