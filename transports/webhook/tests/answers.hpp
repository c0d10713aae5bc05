#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "oncebox/webhook/webhook_client.hpp"
#include "watched.hpp"

namespace oncebox::webhook {

/// The answers to requests, under the names that a test gives them.
class Answers {
 public:
  /// What records the answer to a request.
  [[nodiscard]] WebhookClient::OnAnswer record(const std::string& name) {
    return [this, name](WebhookAnswer answer) {
      got_.change([&](auto& got) {
        got.emplace_back(name, std::move(answer));
        threads_.insert(std::this_thread::get_id());
      });
    };
  }

  [[nodiscard]] bool wait_for(std::size_t count, const std::string& name) const {
    return got_.wait([&](const auto& got) { return count_in(got, name) >= count; });
  }
  [[nodiscard]] std::size_t count(const std::string& name) const {
    return count_in(got_.get(), name);
  }
  /// The first one.
  [[nodiscard]] WebhookAnswer of(const std::string& name) const {
    if (!wait_for(1, name)) return {.failure = "the test got no answer"};
    for (auto& [other, answer] : got_.get()) {
      if (other == name) return answer;
    }
    return {};
  }
  [[nodiscard]] std::vector<std::pair<std::string, WebhookAnswer>> all() const {
    return got_.get();
  }
  [[nodiscard]] std::size_t threads() const { return threads_.size(); }

 private:
  using Got = std::vector<std::pair<std::string, WebhookAnswer>>;

  static std::size_t count_in(const Got& got, const std::string& name) {
    return static_cast<std::size_t>(
        std::count_if(got.begin(), got.end(), [&](const auto& one) { return one.first == name; }));
  }

  Watched<Got> got_;
  std::set<std::thread::id> threads_;  // changed under the lock of the others
};

}  // namespace oncebox::webhook
