#pragma once

#include <map>
#include <memory>
#include <vector>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/fleet/store_set.hpp"

namespace oncebox::server {

/// Passes on the stores of a set, each once its configured rules and endpoints are set: whoever
/// works by these must not begin before. Safe from any thread.
class ReadyStores final : public StoreSource {
 public:
  /// The set has opened a store.
  void on_opened(const MemberStorePtr& member);
  /// Its rules and endpoints are set. Nothing happens when it has left the set meanwhile.
  void on_ready(const MemberStorePtr& member) noexcept;
  /// The set has let it go.
  void on_removed(const MemberStorePtr& member) noexcept;

  void listen(const std::shared_ptr<StoreSetListener>& listener) override;

 private:
  template <class Call>
  void tell(Call call) noexcept ONCEBOX_REQUIRES(mutex_);

  /// Held while listeners are told, as by the set: they hear of changes in their order.
  detail::Mutex mutex_;
  std::map<MemberStorePtr, bool> is_ready_ ONCEBOX_GUARDED_BY(mutex_);  ///< all that are open
  std::vector<std::weak_ptr<StoreSetListener>> listeners_ ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace oncebox::server
