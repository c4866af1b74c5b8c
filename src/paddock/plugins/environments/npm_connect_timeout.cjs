// Loaded into npm before its own code. npm has a limit for silence on a connection and none for making one: without
// this, each attempt at a registry that drops packets takes as long as the kernel tries, which is over two minutes.
'use strict'

const net = require('node:net')

const LIMIT_MS = 5000
const connect = net.Socket.prototype.connect

net.Socket.prototype.connect = function (...args) {
  const timer = setTimeout(() => {
    this.destroy(Object.assign(new Error(`no connection within ${LIMIT_MS / 1000} seconds`), { code: 'ETIMEDOUT' }))
  }, LIMIT_MS)
  for (const event of ['connect', 'close']) {
    this.once(event, () => clearTimeout(timer))
  }
  return connect.apply(this, args)
}
