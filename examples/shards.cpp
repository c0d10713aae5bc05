// Many tenants share a few databases: the hash of a tenant's id chooses one, the same for ever.
// What a program does with a store is made once for each, and found by the tenant.

#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "oncebox/fleet/store_router.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/open_store.hpp"

namespace {

using namespace oncebox;

/// What this program does with a store.
class Shop {
 public:
  explicit Shop(MemberStorePtr member) : member_(std::move(member)), inbox_(member_->store()) {}

  void take_order(const Uuid& tenant, const std::string& order) {
    const EnqueueOutcome outcome =
        inbox_.enqueue({.key = {tenant.to_string(), order}, .topic = "order.placed"});
    std::cout << tenant.to_string().substr(24) << ' ' << order << ": " << to_string(outcome.status)
              << " by " << member_->name() << '\n';
  }

 private:
  MemberStorePtr member_;
  Inbox inbox_;
};

class Shops final : public StoreRouter<Shop> {
 public:
  explicit Shops(StoreSet& stores)
      : StoreRouter(
            stores, Routing::by_hash,
            [](const MemberStorePtr& member) { return std::make_shared<Shop>(member); },
            SystemClock::shared()) {}
};

}  // namespace

int main() {
  // Stores of one PostgreSQL server, if their URLs say `server_connections`, share its connections.
  StoreOpener opener;
  StoreSet stores({{"db-1", "memory:"}, {"db-2", "memory:"}, {"db-3", "memory:"}},
                  [&](const StoreLocation& location) { return opener.open(location.url); });
  Shops shops(stores);

  for (const char* last : {"01", "02", "03", "01"}) {
    const Uuid tenant = Uuid::parse(std::string("01940000-0000-7000-8000-0000000000") + last);
    shops.route(tenant)->take_order(tenant, "order-1");
  }
}
