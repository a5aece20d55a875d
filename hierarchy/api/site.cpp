// hierarchy/api/site.cpp -- the public handle of a site.
#include <tmh/site.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "hierarchy/api/handles.h"
#include "hierarchy/domain/domain.h"
#include "hierarchy/transaction/transaction.h"
#include "platform/failure.h"

namespace tmh {

namespace {

// Of the domain of a new site.
std::shared_ptr<detail::DomainImpl> required_impl_of(const Domain &domain) {
  std::shared_ptr<detail::DomainImpl> impl = detail::impl_of(domain);
  if (impl == nullptr) {
    platform::fail(Errc::kNotInitialized, "a site of an empty domain handle");
    detail::raise(Errc::kNotInitialized);
  }
  detail::check(impl->usable());
  return impl;
}

}  // namespace

Site::Site(const Domain &domain, std::string_view name, std::string_view escalation,
           Isolation isolation)
    : domain_(domain) {
  std::shared_ptr<detail::DomainImpl> impl = required_impl_of(domain);
  const auto open = impl->keep_open();
  detail::check(impl->usable());
  detail::check(hierarchy::check_value(hierarchy::kIsolation, isolation));
  Escalation chosen = impl->settings().escalation;
  if (!escalation.empty() && parse(escalation, &chosen) != Errc::kOk) {
    platform::fail(Errc::kBadLevels, std::string("'")
                                         .append(escalation)
                                         .append("'; right values: ")
                                         .append(escalation_values()));
    detail::raise(Errc::kBadLevels);
  }
  impl_ = std::make_shared<detail::SiteImpl>(std::move(impl), std::string(name), chosen, nullptr,
                                             isolation);
}

Site::Site(const Domain &domain, std::string_view name, EscalationRule rule, Isolation isolation)
    : domain_(domain) {
  std::shared_ptr<detail::DomainImpl> impl = required_impl_of(domain);
  const auto open = impl->keep_open();
  detail::check(impl->usable());
  detail::check(hierarchy::check_value(hierarchy::kIsolation, isolation));
  if (rule == nullptr) {
    platform::fail(Errc::kBadLevels, "a site's own escalation rule is null");
    detail::raise(Errc::kBadLevels);
  }
  Escalation own;
  own.kind = EscalationKind::kOwn;
  impl_ =
      std::make_shared<detail::SiteImpl>(std::move(impl), std::string(name), own, rule, isolation);
}

SiteReport Site::report() const { return impl_->report(); }

}  // namespace tmh
