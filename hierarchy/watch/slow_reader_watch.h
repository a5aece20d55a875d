// hierarchy/watch/slow_reader_watch.h -- what the end of an instance owes to the watch over slow
// readers, once all else is done.
// Shape:     made before the end: an action may close the domain, so this keeps its object. Where
//            nothing is watched it costs a load.
// Contexts:  not in handlers.
#pragma once

#include <memory>

#include "hierarchy/domain/domain_impl.h"
#include "hierarchy/threads/current.h"

namespace tmh::detail {

class SlowReaderWatch {
 public:
  explicit SlowReaderWatch(DomainImpl &domain)
      : domain_(domain.slow_readers().is_watched() ? domain.shared_from_this() : nullptr) {}
  // Nothing inside an instance.
  void look() const noexcept {
    if (domain_ != nullptr && current().where() == Where::kOutside) [[unlikely]]
      domain_->slow_readers().look();
  }

 private:
  // Null: nothing is watched.
  std::shared_ptr<DomainImpl> domain_;
};

}  // namespace tmh::detail
