// levels/page/page_content.h -- makes the content of an instance's commit of its views: copies the
// lines that it wrote into version slots, and plans their redo records.
// Contexts:  not in handlers.
// Source:    thesis, section 3.3, step 3.
#pragma once

#include "levels/page/page_sets.h"
#include "levels/page/publish/publish.h"
#include "levels/page/redo/redo.h"
#include "levels/page/shared/shared.h"
#include "levels/page/touch/touch.h"
#include "levels/page/versions/versions.h"
#include "levels/page/views/views.h"

namespace tmh::page {

class PageContent {
 public:
  // All outlive it.
  PageContent(Ours &ours, const Views &views, PageSets &sets, const Snapshot &snapshot) noexcept
      : ours_(ours),
        views_(views),
        sets_(sets),
        snapshot_(snapshot),
        plan_(ours.memory),
        content_{sets.writes(), plan_} {}

  // Durable domains: before the first instance.
  void use_plan() noexcept { has_plan_ = true; }

  // What PageSets::writes() lists gets disk blocks, slots, a plan. kDiskFull, kOutOfMemory, kIo:
  // nothing is taken but slots that stay reserved.
  [[nodiscard]] Errc make() noexcept;
  [[nodiscard]] const Content &content() const noexcept { return content_; }
  // It is not published. REQUIRES make().
  void take_back() noexcept;

 private:
  void plan_records() noexcept;

  Ours &ours_;
  const Views &views_;
  PageSets &sets_;
  const Snapshot &snapshot_;
  RedoPlan plan_;
  const Content content_;
  bool has_plan_ = false;
};

}  // namespace tmh::page
