#include "oncebox/internal/location_list.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"

namespace oncebox {
namespace {

TEST(LocationList, KeepsWhatItIsGivenInOrder) {
  LocationList list;
  list.add("b", "memory:");
  list.add("a", "sqlite:a.db");
  const std::vector<StoreLocation> expected{{"b", "memory:"}, {"a", "sqlite:a.db"}};
  EXPECT_EQ(std::move(list).take(), expected);
}

TEST(LocationList, RefusesWhatNoSetCouldUseAndShowsNoUrl) {
  LocationList list;
  list.add("a", "memory:");
  const auto refusal = [&](const std::string& name, const std::string& url) {
    return expect_error(ErrorCode::invalid_argument, [&] { list.add(name, url); });
  };
  for (const std::string& text :
       {refusal("", "memory:s3cret"), refusal("a b", "memory:s3cret"),
        refusal(std::string(65, 'a'), "memory:s3cret"), refusal("a", "memory:s3cret"),
        refusal("b", ""), refusal("b", "s3cret" + std::string(kMaxStoreUrlBytes, 'x'))}) {
    EXPECT_EQ(text.find("s3cret"), std::string::npos) << text;
    EXPECT_NE(text, "");
  }
  EXPECT_EQ(std::move(list).take().size(), 1U);
}

TEST(LocationList, HasAnEnd) {
  LocationList list;
  for (std::size_t i = 0; i < kMaxDiscoveredStores; ++i) list.add(std::to_string(i), "memory:");
  expect_error(ErrorCode::invalid_argument, [&] { list.add("more", "memory:"); });
}

}  // namespace
}  // namespace oncebox
