// A set follows its file as soon as that changes: real files, real notifications.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "oncebox/error.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/store_file.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "watched.hpp"

namespace oncebox {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Duration kNever = std::chrono::hours{20};

std::string toml(const std::vector<std::string>& names) {
  std::string text = names.empty() ? "stores = []\n" : "";
  for (const std::string& name : names) {
    text += "[[stores]]\nname = \"" + name + "\"\nurl = \"memory:?s3cret\"\n";
  }
  return text;
}

class StoreFileWatchTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directory(home()); }

  [[nodiscard]] fs::path home() const { return folder_.file("home"); }
  [[nodiscard]] fs::path path() const { return home() / "stores.toml"; }

  void write(const std::string& text) const { std::ofstream(path()) << text; }
  /// As those do who want nobody to see half a file.
  void replace(const std::string& text) const {
    std::ofstream(home() / "new") << text;
    fs::rename(home() / "new", path());
  }

  void follow() {
    file_.emplace(path());
    stores_.emplace(
        [this] {
          discoveries.change([](int& count) { ++count; });
          try {
            auto found = file_->read();
            names.change([&](auto& all) {
              all.clear();
              for (const StoreLocation& one : found) all.push_back(one.name);
            });
            return found;
          } catch (const Error&) {
            failures.change([](int& count) { ++count; });
            throw;
          }
        },
        [](const StoreLocation&) { return std::make_unique<memory::MemoryStore>(); },
        StoreSetOptions{.refresh_interval = kNever, .first_retry = kNever, .max_retry = kNever},
        Surroundings{.logger = logger_});
    watch_.emplace(*file_, *stores_);
  }

  Watched<int> discoveries;
  Watched<int> failures;
  Watched<std::vector<std::string>> names;
  testing::TemporaryFolder folder_;
  std::ostringstream log_;
  SystemClock clock_;
  TextLogger logger_{log_, clock_, LogLevel::info};
  std::optional<StoreFile> file_;
  std::optional<StoreSet> stores_;
  std::optional<StoreFileWatch> watch_;
};

TEST_F(StoreFileWatchTest, AFileThatIsWrittenAnewIsFollowedAtOnce) {
  RecordProperty("requirement", "IBX-093,IBX-095,IBX-096");
  write(toml({"a"}));
  follow();
  EXPECT_THAT(stores_->names(), ElementsAre("a"));
  write(toml({"a", "b"}));
  EXPECT_TRUE(names.wait_for({"a", "b"}));
  write(toml({"b"}));
  EXPECT_TRUE(names.wait_for({"b"}));
}

TEST_F(StoreFileWatchTest, AFileThatIsReplacedIsFollowedAtOnce) {
  write(toml({"a"}));
  follow();
  for (const char* const name : {"b", "c", "d"}) {
    replace(toml({name}));
    EXPECT_TRUE(names.wait_for({name}));
  }
}

TEST_F(StoreFileWatchTest, AFileBehindALinkThatIsTurnedIsFollowedAtOnce) {
  // As a ConfigMap of Kubernetes changes: nothing happens to the name of the file itself.
  for (const char* const version : {"v1", "v2"}) fs::create_directory(home() / version);
  std::ofstream(home() / "v1/stores.toml") << toml({"a"});
  std::ofstream(home() / "v2/stores.toml") << toml({"b"});
  fs::create_symlink("v1", home() / "data");
  fs::create_symlink("data/stores.toml", path());
  follow();
  EXPECT_THAT(stores_->names(), ElementsAre("a"));
  fs::create_symlink("v2", home() / "next");
  fs::rename(home() / "next", home() / "data");
  EXPECT_TRUE(names.wait_for({"b"}));
}

TEST_F(StoreFileWatchTest, AFileThatIsGoneOrBrokenKeepsTheLastGoodSetAndHealthSaysSo) {
  write(toml({"a"}));
  follow();
  const MemberStorePtr before = stores_->find("a");

  write("[[stores]]\nname = \"b\"\nurl = s3cret\n");
  ASSERT_TRUE(failures.wait([](int count) { return count >= 1; }));
  EXPECT_EQ(stores_->find("a"), before);
  const int failed_before = failures.get();
  fs::remove(path());
  ASSERT_TRUE(failures.wait([&](int count) { return count > failed_before; }));
  EXPECT_THROW((void)stores_->refresh(), Error);  // also waits for the one that is under way
  const Health health = stores_->health().discovery;
  EXPECT_EQ(health.status, HealthStatus::degraded);
  EXPECT_THAT(health.detail, HasSubstr("stores.toml"));
  EXPECT_EQ(stores_->find("a"), before);

  write(toml({"a", "c"}));
  EXPECT_TRUE(names.wait_for({"a", "c"}));
  EXPECT_EQ(stores_->refresh(), RefreshResult{});
  EXPECT_EQ(stores_->health().discovery.status, HealthStatus::healthy);
  EXPECT_EQ(stores_->find("a"), before);
  EXPECT_THAT(log_.str(), Not(HasSubstr("s3cret")));
}

TEST_F(StoreFileWatchTest, AFileThatIsMadeLaterIsFollowed) {
  follow();
  EXPECT_TRUE(stores_->names().empty());
  write(toml({"a"}));
  EXPECT_TRUE(names.wait_for({"a"}));
}

TEST_F(StoreFileWatchTest, AFolderThatIsMadeLaterOrAnewIsWatchedAgain) {
  fs::remove(home());
  follow();
  fs::create_directory(home());
  write(toml({"a"}));
  ASSERT_TRUE(names.wait_for({"a"}));
  fs::remove_all(home());
  ASSERT_TRUE(failures.wait([](int count) { return count >= 2; }));
  fs::create_directory(home());
  write(toml({"b"}));
  EXPECT_TRUE(names.wait_for({"b"}));
}

TEST_F(StoreFileWatchTest, ABurstOfChangesIsOneRefresh) {
  write(toml({"a"}));
  follow();
  constexpr int kWrites = 200;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 1; i <= kWrites; ++i) replace(toml({"n" + std::to_string(i)}));
  ASSERT_TRUE(names.wait_for({"n" + std::to_string(kWrites)}));
  const auto took = std::chrono::steady_clock::now() - began;
  // One when it was made; a busy machine may tear the burst apart, but at each place nothing has
  // happened for a while.
  constexpr std::chrono::milliseconds kQuiet{50};
  EXPECT_LE(discoveries.get(), 2 + took / kQuiet);
}

TEST_F(StoreFileWatchTest, OtherFilesOfTheFolderAreNothingToIt) {
  write(toml({"a"}));
  follow();
  for (int i = 0; i < 50; ++i) {
    std::ofstream(home() / "other.toml") << "x";
    fs::remove(home() / "other.toml");
  }
  replace(toml({"b"}));  // comes behind what would have been noticed
  ASSERT_TRUE(names.wait_for({"b"}));
  // One when it was made; what came last is one change, which a busy machine may see in two steps.
  EXPECT_LE(discoveries.get(), 3);
}

TEST_F(StoreFileWatchTest, AChangeBetweenTheFirstDiscoveryAndTheWatchIsNoticed) {
  write(toml({"a"}));
  follow();
  watch_.reset();
  replace(toml({"b"}));
  watch_.emplace(*file_, *stores_);
  EXPECT_TRUE(names.wait_for({"b"}));
}

}  // namespace
}  // namespace oncebox
