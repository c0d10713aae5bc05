#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace oncebox::effects {

/// A store, and a table `effect` of names and numbers of times beside it.
class Place {
 public:
  virtual ~Place() = default;
  [[nodiscard]] virtual std::string url() const = 0;
  /// What a client of the database itself connects to.
  [[nodiscard]] virtual std::string connection() const = 0;
  [[nodiscard]] virtual std::string table() const = 0;
  virtual std::int64_t number(const std::string& sql) = 0;
  /// Returns when nothing of a killed process is under way any more.
  virtual void wait_for_the_dead() {}
};

enum class Backend { sqlite, postgresql };

[[nodiscard]] std::unique_ptr<Place> make_place(Backend backend);

/// What chooses the moments: another one each time, unless ONCEBOX_CRASH_SEED wants those of
/// before.
[[nodiscard]] unsigned seed_of_this_run();

}  // namespace oncebox::effects
