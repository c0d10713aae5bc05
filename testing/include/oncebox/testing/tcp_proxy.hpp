#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace oncebox::testing {

/// Stands between clients and a server of this machine, on a port of 127.0.0.1, so that a test can
/// make their connections fail. What goes through a connection passes its conversation, which may
/// forward it, hold it back, or cut the connection. Calls are safe from any thread.
class TcpProxy {
 public:
  /// One connection of a client, and the one to the server that was made for it.
  class Link {
   public:
    virtual void send_to_server(std::string_view bytes) = 0;
    virtual void send_to_client(std::string_view bytes) = 0;
    /// Forgets what the client was to be sent and has not been.
    virtual void drop_answers() = 0;
    /// Ends both connections, after both sides were told what is on its way to them.
    virtual void cut() = 0;
    [[nodiscard]] virtual bool is_cut() const noexcept = 0;

   protected:
    ~Link() = default;
  };

  /// Decides what becomes of the bytes of one link.
  class Conversation {
   public:
    virtual ~Conversation() = default;
    virtual void on_client_bytes(std::string_view bytes, Link& link) = 0;
    virtual void on_server_bytes(std::string_view bytes, Link& link) = 0;
  };
  using Begin = std::function<std::unique_ptr<Conversation>()>;

  /// `begin` is called for every client. It and the conversations run on the thread of the proxy.
  TcpProxy(std::uint16_t server_port, Begin begin);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  [[nodiscard]] std::uint16_t port() const;

  /// Runs `change` while no conversation runs: for what the conversations share with the test.
  void between_conversations(const std::function<void()>& change);

  /// Ends all connections, and returns when the other ends know.
  void cut_all();

  /// Forwards nothing until `thaw`, and accepts nobody: connections stay open, and nobody answers.
  void freeze();
  void thaw();

  /// From now on everything arrives at the clients this much later.
  void delay_answers(std::chrono::milliseconds by);

  /// How many connections go through it now.
  [[nodiscard]] std::size_t connections() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::testing
