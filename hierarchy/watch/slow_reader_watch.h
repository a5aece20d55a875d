// hierarchy/watch/slow_reader_watch.h -- what the end of an instance owes to the watch over slow
// readers, once all else is done.
// Shape:     made before the end: an action may close the domain, so this keeps its object. Where
//            nothing is watched it costs a load.
// Contexts:  not in handlers.
#pragma once

#include <memory>

#include "hierarchy/threads/threads.h"
#include "hierarchy/watch/slow_readers.h"

namespace tmh::detail {

class SlowReaderWatch {
 public:
  explicit SlowReaderWatch(const SlowReaders &readers)
      : readers_(readers.is_watched() ? readers.keep() : nullptr) {}
  // Nothing inside an instance.
  void look() const noexcept {
    if (readers_ != nullptr && current().where() == Where::kOutside) [[unlikely]]
      readers_->look();
  }

 private:
  // Null: nothing is watched.
  std::shared_ptr<SlowReaders> readers_;
};

}  // namespace tmh::detail
