// levels/line/rtm_update.h -- an update in RTM beside software lines: its begin, and the commit
// that leaves what one in software would.
// Why:       all of it is one step, at XEND. So no line is locked, and the order inside is free;
//            what other committers store to as well comes last. It sees each line as it is now.
//            What a commit in software would wait for, or fail for, aborts the transaction.
// Shape:     a view of the thread, of no state: the instance is the thread's.
// Contexts:  as rtm.h. The thread's own.
// Source:    hierarchy/exchange/PROTOCOL.md, "Lines in RTM".
#pragma once

#include "levels/line/abort_status.h"
#include "levels/line/software.h"

namespace tmh::line {

class RtmUpdate {
 public:
  explicit RtmUpdate(SoftwareThread &thread) noexcept : thread_(thread) {}

  // As rtm_begin() it returns twice. True: inside. False: *status says why the transaction is gone,
  // and no instance runs. REQUIRES as SoftwareThread::begin(); a processor with RTM; of a durable
  // domain, early release.
  [[nodiscard]] bool begin(AbortStatus *status) noexcept;
  // Inside; ends the transaction. stamp() and durable_at() are the thread's.
  void commit() noexcept;

 private:
  void end() noexcept;

  SoftwareThread &thread_;
};

}  // namespace tmh::line
