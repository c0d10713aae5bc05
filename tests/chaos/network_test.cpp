// The way between the workers and their server is cut, and healed.

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "chaos_fixture.hpp"
#include "private_network.hpp"

namespace oncebox::chaos {
namespace {

class Network : public ChaosFixture {
 protected:
  void cut_and_heal(PrivateNetwork::Cut how) {
    PrivateNetwork network;
    PostgresqlServer server(
        durable({{"listen_addresses", network.address()}, {"hba_file", access_rules(network)}}));
    start_workers(
        fmt::format("postgresql://postgres@{}:{}/postgres", network.address(), server.port()),
        network.on_other_side());
    const Instant since = instant_now();
    network.cut(how);
    expect_all_noticed(since);
    network.heal();
    expect_work_goes_on();
    expect_nothing_lost(server.socket_url());
  }

 private:
  std::string access_rules(const PrivateNetwork& network) {
    namespace fs = std::filesystem;
    const std::string path = file_for_server("pg_hba.conf");
    std::ofstream(path) << "local all all trust\nhost all all " << network.workers_network()
                        << " trust\n";
    fs::permissions(path, fs::perms::others_read, fs::perm_options::add);
    return path;
  }
};

TEST_F(Network, SilentCutLosesNothingAndWorkGoesOnWhenItIsHealed) {
  RecordProperty("requirement", "IBX-013, IBX-105, IBX-106, R-14, R-15");
  cut_and_heal(PrivateNetwork::Cut::silently);
}

TEST_F(Network, ResetConnectionsLoseNothingAndWorkGoesOnWhenItIsHealed) {
  RecordProperty("requirement", "IBX-013, IBX-105, IBX-106, R-14, R-15");
  cut_and_heal(PrivateNetwork::Cut::by_resets);
}

}  // namespace
}  // namespace oncebox::chaos
