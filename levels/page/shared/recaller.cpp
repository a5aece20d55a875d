// levels/page/shared/recaller.cpp -- what answers where no level is below.
#include "levels/page/shared/recaller.h"

namespace tmh::page {

Recaller &NothingToRecall::here() noexcept {
  static constinit NothingToRecall nothing;
  return nothing;
}

}  // namespace tmh::page
