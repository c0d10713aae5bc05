#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cancellation.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "parameters.hpp"
#include "result.hpp"

struct pg_conn;
struct pgNotify;

namespace oncebox::postgresql {

/// When the store gives up. Every exchange with the server has one, in real time: libpq and poll
/// know no other. The limits of a call (`CallScope`) hold besides.
using Deadline = SteadyTime;
[[nodiscard]] Deadline deadline_in(std::chrono::milliseconds time);
/// Not above 0 when the time is over.
[[nodiscard]] std::chrono::milliseconds time_left(Deadline deadline);

/// A statement and the name under which a connection prepares it the first time; without a name it
/// is never prepared.
struct Statement {
  std::string name;
  std::string sql;
};

/// The settings of the session while statements of a handler run, and those of the store for the
/// rest of the transaction. The latter answer a boolean first: whether it is the transaction in
/// which the former were made.
extern const Statement kSettingsOfOthers;
extern const Statement kSettingsOfOurs;

/// The frame of a transaction.
extern const Statement kBeginTransaction;
extern const Statement kCommitTransaction;

enum class RowFormat { binary = 1, text = 0 };

/// A statement with its values, borrowed for one exchange.
struct Command {
  const Statement* statement = nullptr;
  const Parameters* parameters = nullptr;
  RowFormat rows = RowFormat::binary;
};

/// What it means when the connection is lost before the server has answered.
enum class Exchange {
  changes_nothing,  ///< reads, or a part of a transaction that is committed later: `unavailable`
  commits,          ///< the server may have committed: `outcome_unknown`
};

/// A connection to the server, used by one thread at a time. Each exchange sends commands together
/// and waits once for all of their results; outside of a transaction they are one. After an error
/// nothing of that exchange has happened, unless the code is `outcome_unknown`.
///
/// When the call of this thread is over, the server is asked to give up what it works on. If it
/// does, nothing has changed, and the connection can be used again; if it was done already, that
/// counts. A server that does not answer then within `Cancellation::kGrace` is given up.
class Connection {
 public:
  /// Connects to the first host that answers. Throws as the store's constructor does. Hosts that do
  /// not answer may take it two seconds each beyond the deadline.
  Connection(const Options& options, Deadline deadline);
  /// The same within the time of a call.
  explicit Connection(const Options& options);
  /// A connection of the caller, which is inside a transaction and goes on with it. Nothing is
  /// prepared on it, and between exchanges every setting is the caller's. At the deadline the
  /// server cancels the statement under way, so that the connection can be given back as it was; a
  /// server that does not answer even then is given up `kSilence` later. Throws `conflict` when the
  /// connection is in no such state.
  explicit Connection(pg_conn* borrowed);
  static constexpr std::chrono::seconds kSilence{10};
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Closes it, and returns when the server is rid of it, at the deadline, or when the limits of
  /// the call are over. Then the connection is of no use.
  void close_and_wait(Deadline deadline) noexcept;

  Result run(const Statement& statement, const Parameters& parameters, Exchange exchange,
             Deadline deadline);
  std::vector<Result> run_all(std::span<const Command> commands, Exchange exchange,
                              Deadline deadline);

  /// Runs text that is not worth preparing.
  Result run_text(const std::string& sql, Exchange exchange, Deadline deadline);

  /// Lends the connection, on which a transaction is open, to a handler that uses libpq directly.
  [[nodiscard]] pg_conn* lend();
  /// Takes it back. Throws `conflict` when it is not as it was lent: then it is of no use any more.
  void take_back();

  /// Whether the server has hung up, as far as can be known without asking it.
  [[nodiscard]] bool is_alive();
  /// No transaction is open, and the last exchange was complete.
  [[nodiscard]] bool is_idle() const;
  /// Whether the connection is to be thrown away.
  [[nodiscard]] bool is_broken() const noexcept { return is_broken_; }
  /// Whether the server has refused a write since the last call, for a reason that concerns every
  /// write.
  [[nodiscard]] bool take_failed_write() noexcept {
    return std::exchange(has_failed_to_write_, false);
  }

  /// Waits until the server announces something or `wake_fd` can be read; answers the texts that
  /// came with announcements. Throws `unavailable` when the connection is lost.
  [[nodiscard]] std::vector<std::string> wait_for_announcements(int wake_fd, Deadline deadline);

 private:
  struct Finish {
    void operator()(pg_conn* connection) const noexcept;
    bool is_borrowed;
  };
  struct Failure {
    std::string sqlstate;
    std::string text;
  };

  [[nodiscard]] bool is_borrowed() const { return connection_.get_deleter().is_borrowed; }
  void enter_pipeline();
  void connect(const Options& options, Deadline deadline);
  void set_up(const Options& options, Deadline deadline);
  /// Sends the commands between two others, and answers the results of the commands.
  std::vector<Result> run_framed(const Statement& before, std::span<const Command> commands,
                                 const Statement& after, Deadline deadline);
  void send(std::span<const Command> commands);
  void queue(const Command& command);
  std::vector<Result> receive(std::span<const Command> commands, Deadline deadline);
  /// The next result of the command at hand; null behind its last.
  [[nodiscard]] pg_result* next_result(Deadline deadline);
  void wait_for_server(Deadline deadline);
  /// The server has not answered within a limit.
  [[noreturn]] void give_up();
  /// Everything was answered. Answers whether the server was asked to give up.
  bool end_cancellation();
  [[noreturn]] void lose(const std::string& why);

  static void note_warning(void* self, const pg_result* result);

  std::unique_ptr<pg_conn, Finish> connection_{nullptr, Finish{.is_borrowed = false}};
  const Pooling pooling_;
  const Statement local_settings_;  ///< for each transaction, where there is no session
  std::unordered_set<std::string> prepared_;
  std::vector<const std::string*> being_prepared_;  ///< in the order in which results will come
  Exchange exchange_ = Exchange::changes_nothing;
  std::optional<Cancellation> cancellation_;  ///< of the exchange under way
  bool is_broken_ = false;
  bool has_failed_to_write_ = false;
  bool commit_is_doubtful_ = false;
};

}  // namespace oncebox::postgresql
