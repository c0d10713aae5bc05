#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "oncebox/error.hpp"
#include "oncebox/http/http_store.hpp"
#include "oncebox/open_store.hpp"

namespace oncebox {
namespace {

ErrorCode code_of(std::string_view url, std::string* text = nullptr) {
  try {
    (void)open_store(url);
  } catch (const Error& error) {
    if (text != nullptr) *text = error.what();
    return error.code();
  }
  ADD_FAILURE() << "expected an oncebox::Error for " << url;
  return ErrorCode::internal;
}

TEST(OpenHttpStore, OpensWithoutTheService) {
  // Nobody listens at port 1.
  const auto store = open_store("http://127.0.0.1:1?timeout_ms=1000&max_retries=0");
  EXPECT_NE(dynamic_cast<http::HttpStore*>(store.get()), nullptr);
  EXPECT_EQ(store->health().status, HealthStatus::unavailable);
  EXPECT_THROW((void)store->keys().is_processed("k"), Error);
}

TEST(OpenHttpStore, TakesEveryParameter) {
  const std::filesystem::path token =
      std::filesystem::path(::testing::TempDir()) / ("open_http_test_" + std::to_string(getpid()));
  std::ofstream(token) << "secret\n";
  const auto store = open_store(
      "https://127.0.0.1:1/path?store=eu&ca_file=/a&client_certificate=/b&client_key=/c"
      "&connect_timeout_ms=10&timeout_ms=20&max_retries=0&max_connections=1&max_payload_bytes=5"
      "&on_unavailable=open&token_file=" +
      token.string());
  std::filesystem::remove(token);
  EXPECT_THROW(store->inbox().enqueue({.key = {"s", "m"}, .topic = "t", .payload = "123456"}),
               Error);
}

TEST(OpenHttpStore, FailsOpenOnlyWhenToldSo) {
  const auto store = open_store("http://127.0.0.1:1?on_unavailable=open&max_retries=0");
  EXPECT_FALSE(store->keys().is_processed("k"));
}

TEST(OpenHttpStore, BadUrlsAreRefused) {
  for (const auto* url :
       {"http:", "http://", "http:host", "http://h?nonsense=1", "http://h?on_unavailable=maybe",
        "http://h?timeout_ms=soon", "http://h?client_key=/k"}) {
    EXPECT_EQ(code_of(url), ErrorCode::invalid_argument) << url;
  }
  EXPECT_EQ(code_of("http://h?timeout_ms=0"), ErrorCode::out_of_range);
  EXPECT_EQ(code_of("http://h?token_file=/no/such/file"), ErrorCode::not_found);
}

TEST(OpenHttpStore, NoSecretBelongsIntoAUrl) {
  std::string text;
  EXPECT_EQ(code_of("http://me:SECRET@host", &text), ErrorCode::invalid_argument);
  EXPECT_NE(text.find("token_file"), std::string::npos);
  EXPECT_EQ(text.find("SECRET"), std::string::npos);
  EXPECT_EQ(code_of("http://host?token=SECRET", &text), ErrorCode::invalid_argument);
  EXPECT_NE(text.find("token_file"), std::string::npos);
  EXPECT_EQ(text.find("SECRET"), std::string::npos);
}

}  // namespace
}  // namespace oncebox
