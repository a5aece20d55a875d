// levels/page/touch/page_opener.h -- makes pages of a view accessible at their first touch: one by
// one, or in blocks that follow the kernel's limit of areas.
// Contexts:  the handler, as first_touch.h says.
// Source:    thesis, section 3.1 (figure 3-1), appendix A.1 item 4 (escalation to larger ranges).
#pragma once

#include "levels/page/shared/shared.h"
#include "levels/page/touch/claimer.h"
#include "levels/page/touch/page_maker.h"
#include "levels/page/touch/run_ahead.h"
#include "levels/page/touch/stand_ins.h"
#include "levels/page/views/views.h"

namespace tmh::page {

class PageOpener {
 public:
  // All outlive it.
  PageOpener(Ours &ours, Mine &mine, StandIns &stand_ins, Claimer &claimer, PageMaker &maker,
             RunAhead &ahead) noexcept
      : ours_(ours),
        mine_(mine),
        stand_ins_(stand_ins),
        claimer_(claimer),
        maker_(maker),
        ahead_(ahead) {}

  // Silent tracking: a guarded or closed page. When home is right the kernel maps it, and lists the
  // fault.
  void open_guarded(View &view, PageId page) noexcept;
  // Signal tracking: the page, or as many around it as the areas that are left demand. False: the
  // kernel lets not even the whole view be opened.
  [[nodiscard]] bool open(View &view, PageId page, bool is_write) noexcept;

 private:
  [[nodiscard]] bool open_page(View &view, PageId page, bool is_write) noexcept;
  [[nodiscard]] bool open_block(View &view, PageId page) noexcept;

  const Ours &ours_;
  Mine &mine_;
  StandIns &stand_ins_;
  Claimer &claimer_;
  PageMaker &maker_;
  RunAhead &ahead_;
};

}  // namespace tmh::page
