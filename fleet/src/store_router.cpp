#include "oncebox/fleet/store_router.hpp"

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/engine/closing.hpp"
#include "oncebox/error.hpp"
#include "oncebox/fleet/set_follower.hpp"
#include "oncebox/internal/mix.hpp"

namespace oncebox {

namespace {

bool is_blank(std::string_view key) {
  return key.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

// FNV-1a, whose result then goes through the finalizer of SplitMix64: otherwise keys that differ in
// their last byte would fall into neighbouring places.
class StableHash {
 public:
  void add(std::string_view text) noexcept {
    for (const char c : text) add(static_cast<unsigned char>(c));
  }
  void add(unsigned char byte) noexcept { state_ = (state_ ^ byte) * 0x100000001b3U; }

  [[nodiscard]] std::uint64_t value() const noexcept {
    return detail::mixed(state_ + 0x9e3779b97f4a7c15U);
  }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325U;
};

}  // namespace

std::string_view choose_by_hash(std::string_view key, std::span<const std::string> names) {
  std::string_view chosen;
  std::uint64_t highest = 0;
  for (const std::string& name : names) {
    StableHash hash;
    hash.add(name);
    hash.add(0xff);  // in no UTF-8 text: so "a" + "bc" is not "ab" + "c"
    hash.add(key);
    const std::uint64_t weight = hash.value();
    if (!chosen.empty() && (weight < highest || (weight == highest && name > chosen))) continue;
    chosen = name;
    highest = weight;
  }
  return chosen;
}

namespace detail {

class StoreRoutes::Impl {
 public:
  Impl(StoreSet& stores, Routing routing, Make make, const Clock& clock)
      : stores_(stores), routing_(routing), make_(std::move(make)), closing_(clock) {
    stores.listen(follower_);
  }
  ~Impl() { follower_->close(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] std::shared_ptr<void> find(std::string_view key) {
    if (is_blank(key)) {
      throw Error(ErrorCode::invalid_argument, "a routing key must not be blank");
    }
    // Found under the lock: should the store leave the set right after, `let_go` waits for the
    // lock, and then finds its part.
    const Lock lock(mutex_);
    const MemberStorePtr member = stores_.find(name_for(key));
    auto found = parts_.find(member.get());
    if (found == parts_.end()) found = parts_.emplace(member.get(), make_(member)).first;
    return found->second;
  }

 private:
  [[nodiscard]] std::string_view name_for(std::string_view key) ONCEBOX_REQUIRES(mutex_) {
    if (routing_ == Routing::by_name) return key;
    stores_.require_discovered();
    const std::uint64_t changes = stores_.changes_of_names();
    if (known_changes_ != changes) {
      names_ = stores_.names();
      known_changes_ = changes;
    }
    if (names_.empty()) throw Error(ErrorCode::not_found, "there are no stores to route to");
    return choose_by_hash(key, names_);
  }

  void let_go(const MemberStorePtr& member) {
    const Lock lock(mutex_);
    const auto found = parts_.find(member.get());
    if (found == parts_.end()) return;
    closing_.let_go(member->server(), std::move(found->second));  // it may have to commit first
    parts_.erase(found);
  }

  StoreSet& stores_;
  const Routing routing_;
  const Make make_;
  Mutex mutex_;
  std::unordered_map<const MemberStore*, std::shared_ptr<void>> parts_ ONCEBOX_GUARDED_BY(mutex_);
  std::vector<std::string> names_ ONCEBOX_GUARDED_BY(mutex_);
  std::optional<std::uint64_t> known_changes_ ONCEBOX_GUARDED_BY(mutex_);
  engine::Closing closing_;
  // Last: a set that tells uses the members above.
  const std::shared_ptr<SetFollower> follower_ = std::make_shared<SetFollower>(SetFollower::Calls{
      [](const MemberStorePtr&) {}, [this](const MemberStorePtr& member) { let_go(member); }});
};

StoreRoutes::StoreRoutes(StoreSet& stores, Routing routing, Make make, const Clock& clock)
    : impl_(std::make_unique<Impl>(stores, routing, std::move(make), clock)) {}

StoreRoutes::~StoreRoutes() = default;

std::shared_ptr<void> StoreRoutes::find(std::string_view key) { return impl_->find(key); }

}  // namespace detail

}  // namespace oncebox
