// What a list of stores in a file says, and how it is refused.

#include "oncebox/store_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "expect_error.hpp"
#include "oncebox/internal/location_list.hpp"
#include "oncebox/testing/temporary_folder.hpp"

namespace oncebox {
namespace {

const std::vector<StoreLocation> kTwo{{"acme", "postgresql://me:s3cret@db/acme"},
                                      {"Zenith-2", "sqlite:zenith.db"}};

class StoreFileTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = folder_.file(name);
    std::ofstream(path) << text;
    return path;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(StoreFileTest, TomlListsStores) {
  RecordProperty("requirement", "IBX-093");
  const StoreFile file(write("stores.toml", R"(
# One for each customer.
[[stores]]
name = "acme"
url = "postgresql://me:s3cret@db/acme"

[[stores]]
name = "Zenith-2"
url = "sqlite:zenith.db"
)"));
  EXPECT_EQ(file.read(), kTwo);
}

TEST_F(StoreFileTest, JsonListsStores) {
  RecordProperty("requirement", "IBX-093");
  const StoreFile file(write("stores.json", R"({"stores": [
    {"name": "acme", "url": "postgresql://me:s3cret@db/acme"},
    {"url": "sqlite:zenith.db", "name": "Zenith-2"}
  ]})"));
  EXPECT_EQ(file.read(), kTwo);
}

TEST_F(StoreFileTest, AnEmptyListIsOneToo) {
  EXPECT_TRUE(StoreFile(write("a.toml", "stores = []")).read().empty());
  EXPECT_TRUE(StoreFile(write("a.json", "{\"stores\": []}")).read().empty());
}

struct Bad {
  std::string text;
  std::string said;
};

TEST_F(StoreFileTest, WhatIsNoListOfStoresIsRefusedWithLineAndKeyOnly) {
  const std::vector<Bad> bad{
      {"", "it lists no stores"},
      {"\n[[stores]]\nname = \"a\"\nurl = \"s3cret\" s3cret", "line 4: this is not TOML"},
      {"[[stores]]\nname = \"a\"\nurl = s3cret", "line 3: this is not TOML"},
      {"stores = \"s3cret\"", "line 1: stores must be a list"},
      {"stores = [\"s3cret\"]", "line 1: stores must be a list of tables"},
      {"tenants = \"s3cret\"", "line 1: unknown key tenants"},
      {"[[stores]]\nname = 7\nurl = \"s3cret\"", "line 2: name must be a text"},
      {"[[stores]]\nname = \"a\"\nurl = [\"s3cret\"]", "line 3: url must be a text"},
      {"[[stores]]\nurl = \"s3cret\"", "line 1: the name of a store is missing"},
      {"[[stores]]\nname = \"a\"", "line 1: the url of a store is missing"},
      {"[[stores]]\nname = \"a\"\nurl = \"s3cret\"\ncolour = 1", "line 4: unknown key colour"},
      {"[[stores]]\nname = \"a\"\nurl = \"s3cret\"\n\"memory://s3cret\" = 1",
       "line 4: unknown key (not shown)"},
      {"[[stores]]\nname = \"a b\"\nurl = \"s3cret\"", "line 1: the name of a store is"},
      {"[[stores]]\nname = \"a\"\nurl = \"s3cret\"\n[[stores]]\nname = \"a\"\nurl = \"s3cret\"",
       "line 4: the name a is there twice"},
  };
  for (const Bad& one : bad) {
    const StoreFile file(write("bad.toml", one.text));
    const std::string error = expect_error(ErrorCode::invalid_argument, [&] { (void)file.read(); });
    EXPECT_NE(error.find("bad.toml: " + one.said), std::string::npos) << error;
    EXPECT_EQ(error.find("s3cret"), std::string::npos) << error;
  }
}

TEST_F(StoreFileTest, JsonThatIsNoListOfStoresIsRefusedToo) {
  const std::vector<Bad> bad{
      {"", "line 1: this is not JSON"},
      {"{\"stores\": [\n{\"name\": \"a\",\n\"url\": s3cret}]}", "line 3: this is not JSON"},
      {"{\"stores\": []} s3cret", "line 1: this is not JSON"},
      {"[\"s3cret\"]", "it must be an object"},
      {"{}", "it must be an object"},
      {"{\"stores\": \"s3cret\"}", "stores must be a list"},
      {"{\"tenants\": \"s3cret\"}", "unknown key tenants"},
      {"{\"stores\": [\"s3cret\"]}", "stores[0]: must be an object"},
      {"{\"stores\": [{\"name\": 7, \"url\": \"s3cret\"}]}", "stores[0]: name must be a text"},
      {"{\"stores\": [{\"url\": \"s3cret\"}]}", "stores[0]: the name is missing"},
      {"{\"stores\": [{\"name\": \"a\"}]}", "stores[0]: the url is missing"},
      {"{\"stores\": [{\"name\": \"a\", \"s3cret s3cret\": 1}]}", "unknown key (not shown)"},
      {"{\"stores\": [{\"name\": \"a\", \"url\": \"m\"}, {\"name\": \"a\", \"url\": \"s3cret\"}]}",
       "stores[1]: the name a is there twice"},
  };
  for (const Bad& one : bad) {
    const StoreFile file(write("bad.json", one.text));
    const std::string error = expect_error(ErrorCode::invalid_argument, [&] { (void)file.read(); });
    EXPECT_NE(error.find(one.said), std::string::npos) << error;
    EXPECT_EQ(error.find("s3cret"), std::string::npos) << error;
  }
}

TEST_F(StoreFileTest, AFileThatIsGoneOrNoFileIsUnavailable) {
  expect_error(ErrorCode::unavailable,
               [&] { (void)StoreFile(folder_.file("nothing.toml")).read(); });
  expect_error(ErrorCode::unavailable, [&] { (void)StoreFile(folder_.file(".")).read(); });
  const std::string pipe = folder_.file("pipe.toml");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_error(ErrorCode::unavailable, [&] { (void)StoreFile(pipe).read(); });
}

TEST_F(StoreFileTest, SizeAndNumberHaveALimit) {
  const StoreFile large(write("large.toml", std::string(kMaxStoreFileBytes + 1, '#')));
  expect_error(ErrorCode::invalid_argument, [&] { (void)large.read(); });

  std::string many = "stores = [";
  for (std::size_t i = 0; i <= kMaxDiscoveredStores; ++i) {
    many += "{name = \"" + std::to_string(i) + "\", url = \"memory:\"},";
  }
  const StoreFile crowded(write("crowded.toml", many + "]"));
  const std::string error =
      expect_error(ErrorCode::invalid_argument, [&] { (void)crowded.read(); });
  EXPECT_NE(error.find("more than"), std::string::npos) << error;
}

}  // namespace
}  // namespace oncebox
