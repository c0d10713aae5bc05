#include "oncebox/discover_by_query.hpp"

#include <gtest/gtest.h>

#include "oncebox/error.hpp"
#include "oncebox/open_store.hpp"
#include "oncebox/testing/temporary_folder.hpp"

namespace oncebox {
namespace {

TEST(DiscoverByQuery, TheUrlSaysWhichDatabaseIsAsked) {
  const testing::TemporaryFolder folder;
  const std::string url = "sqlite:" + folder.file("control.db");
  (void)open_store(url);  // any file of SQLite is a control database
  const auto found = discover_by_query(url + "?timeout_ms=5000", "SELECT 'acme', 'memory:'")();
  EXPECT_EQ(found, (std::vector<StoreLocation>{{"acme", "memory:"}}));
}

TEST(DiscoverByQuery, BadUrlsAreRefusedBeforeAnybodyIsAskedAndThePasswordIsNotShown) {
  const std::vector<std::pair<std::string, ErrorCode>> bad{
      {"memory:", ErrorCode::unsupported},
      {"mysql://me:s3cret@h/d", ErrorCode::unsupported},
      {"s3cret", ErrorCode::invalid_argument},
      {"sqlite:x.db?timeout_ms=s3cret", ErrorCode::invalid_argument},
      {"sqlite:x.db?readers=2", ErrorCode::invalid_argument},
      {"sqlite:x.db?timeout_ms=1", ErrorCode::out_of_range},
      {"postgresql://me:s3cret@h/d?timeout_ms=999999999", ErrorCode::out_of_range},
      {"postgresql://me:s3cret@h/d?timeout_ms=18446744073709551615", ErrorCode::out_of_range},
      {"postgresql://me:s3cret@h/d?connect_timeout_s=0", ErrorCode::out_of_range},
      {"postgresql://me:s3cret@h/d?pooling=s3cret", ErrorCode::invalid_argument}};
  for (const auto& [url, code] : bad) {
    try {
      (void)discover_by_query(url, "SELECT 1, 2");
      ADD_FAILURE() << url;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << url << ": " << error.what();
      EXPECT_EQ(std::string(error.what()).find("s3cret"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW((void)discover_by_query("sqlite:x.db", " "), Error);
}

}  // namespace
}  // namespace oncebox
