// The server's disk fills up, and there is room again.

#include <filesystem>

#include "chaos_fixture.hpp"
#include "oncebox/error.hpp"
#include "small_disk.hpp"

namespace oncebox::chaos {
namespace {

class Disk : public ChaosFixture {};

TEST_F(Disk, FullOneLosesNothingAndWorkGoesOnWhenThereIsRoomAgain) {
  RecordProperty("requirement", "IBX-013, IBX-105, IBX-106, R-14, R-15");
  constexpr std::size_t kBytes = std::size_t{160} << 20;
  const std::string disk = file_for_server("disk");
  std::filesystem::create_directory(disk);
  workers::mount_small_disk(disk, kBytes);
  PostgresqlServer server({.durable = true, .folder = disk});
  start_workers(server.url());
  const Instant since = instant_now();
  workers::write_file(disk + "/ballast", kBytes);
  expect_all_noticed(since);
  std::filesystem::remove(disk + "/ballast");
  // One that could not write its log gives up, sooner or later.
  wait_until("the server to take writes again", [&] {
    try {
      server.start();
      server.execute("CREATE TABLE IF NOT EXISTS there_is_room ()");
      return true;
    } catch (const Error&) {
      return false;
    }
  });
  expect_work_goes_on();
  expect_nothing_lost(server.url());
}

}  // namespace
}  // namespace oncebox::chaos
