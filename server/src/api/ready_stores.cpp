#include "api/ready_stores.hpp"

#include <utility>

namespace oncebox::server {

void ReadyStores::on_opened(const MemberStorePtr& member) {
  const detail::Lock lock(mutex_);
  is_ready_.emplace(member, false);
}

void ReadyStores::on_ready(const MemberStorePtr& member) noexcept {
  const detail::Lock lock(mutex_);
  const auto found = is_ready_.find(member);
  if (found == is_ready_.end() || std::exchange(found->second, true)) return;
  tell([&](StoreSetListener& listener) { listener.on_opened(member); });
}

void ReadyStores::on_removed(const MemberStorePtr& member) noexcept {
  const detail::Lock lock(mutex_);
  const auto found = is_ready_.find(member);
  if (found == is_ready_.end()) return;
  const bool was_ready = found->second;
  is_ready_.erase(found);
  if (was_ready) tell([&](StoreSetListener& listener) { listener.on_removed(member); });
}

void ReadyStores::listen(const std::shared_ptr<StoreSetListener>& listener) {
  const detail::Lock lock(mutex_);
  for (const auto& [member, is_ready] : is_ready_) {
    if (is_ready) listener->on_opened(member);
  }
  listeners_.push_back(listener);
}

template <class Call>
void ReadyStores::tell(Call call) noexcept {
  for (const auto& known : listeners_) {
    if (const auto listener = known.lock()) call(*listener);
  }
}

}  // namespace oncebox::server
