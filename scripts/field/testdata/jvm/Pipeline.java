import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.embedded.EmbeddedChannel;
import io.netty.handler.codec.LengthFieldBasedFrameDecoder;
import io.netty.handler.codec.LengthFieldPrepender;

/** Netty's pipeline without a network: handlers that call each other in a recursion. A round is 100 messages. */
public class Pipeline {
	static class Count extends ChannelInboundHandlerAdapter {
		long bytes;

		@Override
		public void channelRead(ChannelHandlerContext c, Object m) throws Exception {
			bytes += ((ByteBuf) m).readableBytes();
			super.channelRead(c, m);
		}
	}

	static class Sum extends ChannelInboundHandlerAdapter {
		long sum;

		@Override
		public void channelRead(ChannelHandlerContext c, Object m) throws Exception {
			ByteBuf b = (ByteBuf) m;
			for (int i = b.readerIndex(); i < b.writerIndex(); i++) {
				sum += b.getByte(i);
			}
			super.channelRead(c, m);
		}
	}

	static class Answer extends ChannelInboundHandlerAdapter {
		@Override
		public void channelRead(ChannelHandlerContext c, Object m) {
			c.writeAndFlush(m);
		}
	}

	public static void main(String[] args) throws Exception {
		EmbeddedChannel c = new EmbeddedChannel(new LengthFieldBasedFrameDecoder(1 << 16, 0, 4, 0, 4), new LengthFieldPrepender(4),
			new Count(), new Sum(), new Count(), new Answer());
		Rounds.report();
		while (true) {
			for (int i = 0; i < 100; i++) {
				ByteBuf message = Unpooled.buffer(80);
				message.writeInt(64).writeZero(64);
				c.writeInbound(message);
				for (ByteBuf out = c.readOutbound(); out != null; out = c.readOutbound()) {
					out.release();
				}
			}
			Rounds.DONE.increment();
		}
	}
}
