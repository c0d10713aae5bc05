#include "api_fixture.hpp"
#include "idle_spaces.hpp"

namespace oncebox::server {

std::vector<StoreKind> store_kinds() { return {StoreKind::postgresql}; }

std::unique_ptr<Store> make_store(StoreKind, const Clock& clock, const testing::TemporaryFolder&,
                                  const std::string&) {
  return postgresql::make_store_in_idle_space(clock);
}

}  // namespace oncebox::server
