// bench/support/line_rtm.cpp -- sites of a hybrid domain in the line bench: plain code in RTM, and
// tmh::field in RTM or on software lines.
// Limits:   where RTM does not work only the last one runs. Aborts are not counted per operation
//           here: Site::report() has them by cause.
#include <tmh/tmh.hpp>

#include "bench/support/line_work.h"
#include "levels/line/rtm_detection.h"

namespace tmh::bench {
namespace {

// kHasQueries: lookups are told to be queries, which RTM does not run.
template <template <class> class FieldOf, bool kHasQueries>
class SiteMemory {
 public:
  template <class T>
  using Field = FieldOf<T>;

  SiteMemory(const std::string &folder, LineChoice choice) {
    DomainOptions options;
    options.levels = Levels::kHybrid;
    options.line = choice;
    domain_ = Domain::open(folder, options);
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = raw.max_bytes = kLineMemoryBytes;
    raw.relocatable = true;  // three domains in one process
    segment_ = domain_.map("data", raw);
    site_ = std::make_unique<Site>(domain_, "line");
  }

  static constexpr bool kIsPlain = std::is_same_v<Field<int>, PlainField<int>>;

  class Session : public LineOperations<Session> {
   public:
    explicit Session(const Site &site) : site_(site) {}
    template <class Body>
    [[gnu::always_inline]] auto update(const Body &body) {
      if constexpr (kIsPlain)
        return atomically(site_, body);
      else
        return atomically(site_, [&](Fields) { return body(); });
    }
    template <class Body>
    [[gnu::always_inline]] auto query(const Body &body) {
      if constexpr (kHasQueries)
        return tmh::query(site_, [&](Fields) { return body(); });
      else
        return update(body);
    }
    [[nodiscard]] static std::uint64_t aborts() { return 0; }

   private:
    const Site &site_;
  };
  [[nodiscard]] Session session() { return Session(*site_); }
  [[nodiscard]] std::byte *memory(std::size_t) const { return segment_.data(); }
  // What the bench does between its instances: at level 2.
  template <class Body>
  void alone(const Body &body) {
    atomically(domain_, body);
  }

 private:
  Domain domain_;
  Segment segment_;
  std::unique_ptr<Site> site_;
};

template <template <class> class FieldOf, bool kHasQueries>
class Sites final : public LineContestant {
 public:
  Sites(const char *name, const std::string &folder, LineChoice choice)
      : name_(name), memory_(folder, choice) {}
  [[nodiscard]] const char *name() const override { return name_; }
  LineOutcome run(const LineWork &work) override { return run_line_work(work, memory_); }

 private:
  const char *name_;
  SiteMemory<FieldOf, kHasQueries> memory_;
};

template <class T>
using InstrumentedField = tmh::field<T>;

}  // namespace

std::unique_ptr<LineContestant> make_line_sites(const std::string &folder) {
  return std::make_unique<Sites<InstrumentedField, true>>("sites", folder, LineChoice::kSoftware);
}

std::unique_ptr<LineContestant> make_line_rtm(const std::string &folder, bool is_plain) {
  if (!line::detect_rtm().is_usable) return nullptr;
  if (is_plain) return std::make_unique<Sites<PlainField, false>>("rtm", folder, LineChoice::kRtm);
  return std::make_unique<Sites<InstrumentedField, false>>("rtm-fields", folder, LineChoice::kRtm);
}

}  // namespace tmh::bench
